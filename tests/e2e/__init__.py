"""People at real browsers. A package, so that one server and one browser serve all of it."""
