"""The relations between filters, from the relations between their constraints."""
