"""The pure state machines of client and coordinator: an event in, decisions out."""
