"""Kernels as descriptions: what a fused operation computes, before any loop exists."""
