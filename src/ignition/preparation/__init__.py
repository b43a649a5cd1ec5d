"""What is declared before recording: storage, contract, tokenizer, rotary tables."""
