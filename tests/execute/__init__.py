"""Tests of execution: packing, records, frames."""
