"""Opens cores: nothing is used before lengths, digests, signature and acceptance are right."""
