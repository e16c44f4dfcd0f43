"""Reports that only read: what a memory wants looking after."""
