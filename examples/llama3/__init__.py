"""Llama-3 at full size, without weights: what each stage of the compiler is worth."""
