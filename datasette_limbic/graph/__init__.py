"""The memory as a picture: what is near an entity, and the whole by its communities.

Drawn on the server and the same each time. networkx lays out and finds communities; it is
imported where it is needed, since Datasette starts without it.
"""
