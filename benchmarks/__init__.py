"""Speed and quality, side by side with what a reader could pick instead: `python -m benchmarks`."""
