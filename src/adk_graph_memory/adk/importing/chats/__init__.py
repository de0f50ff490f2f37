"""Read exported chats, which name no app and no user, and make sessions of them."""
