"""DM's OpenAPI under ``/api/v1``: the contract, its operations, and the forms of sources and tasks in JSON."""
