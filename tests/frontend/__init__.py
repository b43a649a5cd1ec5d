"""Tests of the frontend: templates, provenance, messages, prompts, tokens, stops, grammars."""
