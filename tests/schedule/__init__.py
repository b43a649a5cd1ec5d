"""Tests of the scheduler: gates, plans, judgement of records, and the roster."""
