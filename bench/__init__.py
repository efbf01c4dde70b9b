"""Measures the tools and the compiled models against their bars; prints, never asserts."""
