package param

// DryRunParam makes a write a dry run. Every operation that writes embeds it: package route marks
// the context by it.
type DryRunParam struct {
	DryRun bool `query:"dry_run" doc:"Write nothing: check the request, and answer as the write would now, with the same errors. Another request may still change that. Ids of what is not made are 0, or not kept."`
}

// IsDryRun reports whether the request is to write nothing.
func (p *DryRunParam) IsDryRun() bool { return p.DryRun }
