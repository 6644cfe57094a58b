"""Tests of what is deployed, with the tools of its own world: kustomize, kubeconform, actionlint, systemd, pip."""
