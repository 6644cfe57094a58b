"""Configuration: typed objects (model), strict parsing with places (yaml/toml), and the rules between keys."""
