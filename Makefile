PYTHON ?= python3

.PHONY: proto
proto: ## regenerate the committed gRPC stubs
	PYTHON=$(PYTHON) proto/gen.sh
