"""The paper's tables from its receipts, ours beside the published ones."""
