"""The isolation tiers: one module each, named like the tier, with the class as `PART` (scrout.sandbox.tier)."""
