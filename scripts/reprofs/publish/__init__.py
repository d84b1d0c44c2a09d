"""Published results: results/NAME is a study as it was run, for others to read, check and measure again."""
