"""The `vllm serve` command of a plan."""
