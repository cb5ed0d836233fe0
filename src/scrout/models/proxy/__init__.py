"""The metering proxy: every paid call passes it, and it alone holds the endpoint's key."""
