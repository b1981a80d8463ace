"""Text generation behind one interface; knows no game."""
