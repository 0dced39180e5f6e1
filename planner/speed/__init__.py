"""How fast a launch serves: step time from bytes, operations and fixed costs."""
