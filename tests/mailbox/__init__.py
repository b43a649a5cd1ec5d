"""Tests of the mailbox between front and worker."""
