"""Tests of output syntax: every case in every split."""
