"""The compiled parts under address and undefined-behaviour sanitizers, fuzzed with a fresh seed in each run."""
