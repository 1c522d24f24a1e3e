package definition

// ShownOnly returns the fields of a timer or a calendar, as the API shows them, that only the service
// sets. Exports leave them out, and so do commands that read what another command has shown.
func ShownOnly() []string {
	return []string{
		"id", "version", "paused", "next_due", "active_since", "created_at", "updated_at",
		"fires_created", "last_fired", "last_outcome", "warnings", "dry_run", "upcoming", "import",
		"unreadable",
	}
}
