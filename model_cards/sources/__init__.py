"""Where a model's description comes from: a folder, the Hub and its cache, the bundled snapshot."""
