"""vLLM as facts: releases, flags, defaults, backends, rules."""
