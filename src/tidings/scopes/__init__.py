"""Scopes: who sees what. The scope graph, interfaces, mappings."""
