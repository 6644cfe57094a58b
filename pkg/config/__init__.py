"""Configuration: typed objects (model), strict parsing with positions (yaml/toml), and the rules between keys."""
