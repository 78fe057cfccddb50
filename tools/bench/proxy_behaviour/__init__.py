"""What proxies do with conversations, failures and bodies: ours, nginx and the Rust routers, asked the same."""
