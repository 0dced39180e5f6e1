"""What a machine has: every known GPU, and rigs of them."""
