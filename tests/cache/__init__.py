"""Tests of pages: counts and holders."""
