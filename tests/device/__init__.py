"""Tests of devices, the scripted one above all."""
