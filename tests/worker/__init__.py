"""Tests of the whole worker on a scripted device."""
