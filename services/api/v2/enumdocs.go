package v2

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/explain"
	"github.com/carillon-timer/carillon/libs/timer"
)

// enumDocs documents each value of each enumeration in the API description. Its keys are
// "property.value", or "schema.property.value" where properties of one name differ.
var enumDocs = map[string]string{
	"kind.cron":        "at what cron expressions (specs) match",
	"kind.interval":    "every so often, counted from its anchor or first activation, however long its fires take",
	"kind.fixed_delay": "so long (every) after the end of the fire before, one at a time",
	"kind.at":          "once, at an instant",
	"kind.delay":       "once, so long after the first activation",

	"gap.shift":                 "once, at the first instant after the gap",
	"gap.skip":                  "not on that day",
	"overlap.first":             "the earlier of the two",
	"overlap.second":            "the later of the two",
	"overlap.both":              "both",
	"excluded.skip":             "it is not due",
	"excluded.next_allowed":     "it is due on the next allowed day at the same local time; if that time is not allowed, or the day is the same, at the start of the next allowed stretch",
	"excluded.previous_allowed": "it is due on the previous allowed day at the same local time; if that time is not allowed, or the day is the same, in the last second of the previous allowed stretch; not for fixed_delay",

	"result.created":                  "a new timer",
	"result.existed":                  "a timer that was there; with put it has the definition now",
	"result.changed":                  "it was there, and is as the document says now",
	"result.unchanged":                "it was as the document says",
	"importeditembody.result.created": "it was not there, and is now",
	"format.ndjson":                   "a line of JSON for each",
	"format.yaml":                     "a YAML document for each",
	"result.failed":                   "nothing was written, or perhaps so: see its error",

	"kind.canary":  "Carillon's own, which calls nobody",
	"http2.never":  "HTTP/1.1 only",
	"http2.always": "HTTP/2 from the first byte, over http too (h2c); a server that does not speak it fails the attempt",
	"mode.any":     "one after the other until one succeeds",
	"mode.all":     "each of them; delivered when each was, and a retry calls only those that have not taken it",

	"concurrencybody.policy.allow":           "it runs beside the one before",
	"concurrencybody.policy.skip":            "it is skipped (overlap)",
	"concurrencybody.policy.queue_one":       "one waits, the oldest; while it does, later ones are skipped (queue_full)",
	"concurrencybody.policy.queue_all":       "all wait, in the order in which they are due, up to max_queue; others are skipped (queue_full)",
	"concurrencybody.policy.cancel_previous": "it runs; the call of the one before is given up, and that ends as skipped (cancelled)",

	"priority.high":   "these go first, and get 16 of 21 shares where not all can run",
	"priority.normal": "4 of 21 shares",
	"priority.low":    "1 of 21 shares; never none",

	"status.active":   "its schedule is followed",
	"status.inactive": "its schedule is not followed until it is activated",
	"status.paused":   "its schedule is not followed until it is resumed, or until an instant",
	"status.deleted":  "it was deleted; its fires are still listed",

	"sort.id":         "in the order in which they were made",
	"sort.name":       "by name, byte by byte",
	"sort.next_due":   "by next_due. It is exact where labels, target_host, name_prefix or due_before leave at most 1,000 timers, and in small apps. Else one that is due several times an hour may come up to an hour too late",
	"sort.last_fired": "by last_fired. Labels, target_host, name_prefix or due_before must leave at most 1,000 timers",
	"order.asc":       "smallest or earliest first",
	"order.desc":      "greatest or latest first",

	"last_outcome.delivered": "its latest finished fire was delivered",
	"last_outcome.failed":    "it failed",
	"last_outcome.skipped":   "it was skipped",
	"last_outcome.none":      "no finished fire of it is kept",

	"cause.schedule": "it is part of the schedule",
	"cause.run_now":  "it was requested by run",
	"cause.backfill": "a backfill of a past range was requested",
	"cause.redrive":  "it failed and was redriven",

	"status.open":      "without outcome yet",
	"status.delivered": "an attempt succeeded",
	"status.failed":    "it was called, or cannot be called as it is defined, and is not tried again",
	"status.skipped":   "it was not called, for its reason",
	"status.upcoming":  "of a list only: due later than the list was asked for. GET /fires/{id} knows it, as open, once it is made, about an hour before",

	"state.delivered":    "an attempt succeeded",
	"state.failed":       "it was called, or cannot be called as it is defined, and is not tried again",
	"state.skipped":      "it was not called, or its call was given up",
	"reason.inactive":    "its timer was not active when it was due",
	"reason.paused":      "its timer was paused when it was due",
	"reason.frozen":      "its app was frozen",
	"reason.deleted":     "its timer was deleted",
	"reason.misfired":    "it was late, and the misfire policy did not want it",
	"reason.superseded":  "an edit removed its instant",
	"reason.overlap":     "the fire before it had not ended",
	"reason.queue_full":  "enough fires waited already",
	"reason.cancelled":   "a later fire replaced it, or its backfill was cancelled",
	"reason.exhausted":   "no attempts are left",
	"reason.not_retried": "the status of the answer is not retried",
	"reason.gave_up":     "the next attempt would have been later than give_up_after allows",
	"reason.gone":        "the endpoint answered 410",
	"reason.rejected":    "the target is invalid or may not be called, or its server refused the call for good",

	"completebody.status.delivered":   "the receiver did what it was called for",
	"completebody.status.failed":      "it counts as a failed attempt: the timer's retry policy goes on from there",
	"completedbody.status.delivered":  "it is recorded as delivered",
	"completedbody.status.failed":     "the attempt is recorded as failed",
	"outcome.pending":                 "the fire is open, and the target is to be called, or called again",
	"outcome.delivered":               "it took the fire",
	"outcome.failed":                  "it did not take it, and is not called again",
	"outcome.skipped":                 "it did not take it, and the fire was skipped",
	"testedtarget.outcome.accepted":   "it accepted the call, and would complete the fire later",
	"testedtarget.outcome.failed":     "it did not take the call",
	"testcallbody.outcome.delivered":  "it would end as delivered",
	"testcallbody.outcome.accepted":   "it would wait for a completion",
	"testcallbody.outcome.failed":     "the attempt would have failed",
	"testcallbody.outcome.not_called": "nothing was called, because of dry_run",
	"waits_for.run":                   "for its run time; if that has passed, for an executor to claim it",
	"waits_for.executor":              "for the executor that has it and may call it now: it is being called, is about to be, or its result is not recorded yet",
	"waits_for.retry":                 "for another attempt",
	"waits_for.turn":                  "for the fire before it to finish",
	"waits_for.completion":            "for its receiver to complete it",
	"waits_for.limits":                "for the limits of its app or the breaker of its endpoint",
	"waits_for.activation":            "for its timer to be active again",
	"backfillbody.status.running":     "fires are still being made",
	"backfillbody.status.done":        "all its fires are made; some of them may still wait to be called",
	"backfillbody.status.cancelled":   "no more are made, and what was not called is skipped (cancelled)",
	"action.pause":                    "they are paused",
	"action.resume":                   "their pause ends",
	"action.delete":                   "they are deleted",
	"action.run":                      "their target is called now, besides their schedule",
	"action.relabel":                  "they get and lose labels, as a new version",
	"action.delete_app":               "all timers are deleted, then all else of the app",
	"jobbody.status.running":          "timers are still being changed",
	"jobbody.status.done":             "all of them were dealt with; failed tells how many could not be changed",
	"jobbody.status.cancelled":        "no further page begins, and what was changed stays; the page under way, at most 500 timers, is still done, and counts a moment after finished_at",
	"jobbody.status.failed":           "it could not go on: see failure",
	"auditactorbody.kind.key":         "by an API key",
	"auditactorbody.kind.key_file":    "by a key from a file",
	"auditactorbody.kind.gateway":     "by a gateway that the API trusts",
	"auditactorbody.kind.person":      "by signing in",
	"auditactorbody.kind.token":       "by the completion token of a call",
	"auditactorbody.kind.anonymous":   "not at all: keys are off",
	"auditactorbody.kind.system":      "it is a service of Carillon",
	"kind.timer":                      "a timer",
	"kind.app":                        "an app as a whole",
	"kind.settings":                   "limits and rules of an app",
	"kind.calendar":                   "a calendar",
	"kind.api_key":                    "an API key",
	"kind.signing_key":                "a signing key",
	"kind.backfill":                   "a backfill",
	"kind.redrive":                    "a redrive of failed fires",
	"kind.job":                        "a change of many timers",
	"kind.fire":                       "a fire",
	"kind.person":                     "a person who signed in",
	"action.create":                   "it is new, or begun",
	"action.update":                   "its content was changed",
	"query.action.delete":             "it was deleted, revoked or retired",
	"action.activate":                 "its schedule is followed from then on",
	"action.deactivate":               "its schedule is not followed from then on",
	"query.action.pause":              "it was paused, or the reason or end of its pause was changed",
	"query.action.resume":             "its pause was ended",
	"query.action.run":                "its target was to be called at once",
	"action.freeze":                   "no fire of the app is called from then on, or the reason of that was changed",
	"action.unfreeze":                 "fires of the app are called again",
	"action.cancel":                   "it was ended early",
	"action.test":                     "the target of a definition was called for a test",
	"action.end_sessions":             "their sessions at the page were ended",
	"action.complete":                 "its receiver, or a person, said how it ended",
	"auditentrybody.action.delete":    "it was deleted, revoked or retired",
	"auditentrybody.action.pause":     "it was paused, or the reason or end of its pause was changed",
	"auditentrybody.action.resume":    "its pause was ended",
	"auditentrybody.action.run":       "its target was to be called at once",
	"scope.read":                      "see timers, fires and outcomes",
	"scope.operate":                   "pause, resume and run timers, redrive fires, cancel jobs",
	"scope.write":                     "make, change and delete timers",
	"scope.admin":                     "keys, limits and signing keys, too",
	"kind.hmac":                       "receivers verify by the secret",
	"kind.ed25519":                    "receivers verify by the public key",
	"as.excluded":                     "they are added to excluded_dates",
	"as.included":                     "they are added to included_dates",
	"mode.merge":                      "they are added to those that are there",
	"mode.replace":                    "they take their place",
	"sessionbody.kind.executor":       "it calls targets",
	"sessionbody.kind.scheduler":      "it claims slices",
}

// documentSchemas adds the meaning of values and the bounds to the description of each property and
// parameter, unless their own text has them.
func documentSchemas(d *huma.OpenAPI) {
	docs := maps.Clone(enumDocs)
	calls, outcomes := callback.Describe()
	for kind, doc := range calls {
		docs["kind."+string(kind)] = doc
		docs["targetoutcomebody.kind."+string(kind)] = outcomes[kind]
	}
	for _, m := range explain.Meanings() {
		docs["answerbody.code."+string(m.Code)] = m.Text
	}
	for _, m := range explain.HopMeanings() {
		docs["hopbody.code."+string(m.Code)] = m.Text
	}
	for _, m := range explain.HoldMeanings() {
		docs["holdbody.code."+string(m.Code)] = m.Text
	}
	for _, p := range timer.Paths() {
		docs["path."+p.Name] = p.Doc
	}
	for _, w := range timer.Waits() {
		docs["waited_for."+w.Name] = w.Doc
	}
	for _, p := range timer.MisfirePolicies() {
		docs["misfirebody.policy."+string(p.Policy)] = p.Doc
	}
	for name, s := range d.Components.Schemas.Map() {
		documentSchema(docs, strings.ToLower(name), s)
	}
	for _, p := range d.Paths {
		for _, op := range []*huma.Operation{p.Get, p.Post, p.Put, p.Patch, p.Delete} {
			if op == nil {
				continue
			}
			for _, param := range op.Parameters {
				param.Description = describeProperty(
					docs,
					"query",
					param.Name,
					param.Description,
					param.Schema,
				)
				param.Schema.Description = param.Description
			}
		}
	}
}

func documentSchema(docs map[string]string, schema string, s *huma.Schema) {
	for name, one := range s.Properties {
		one.Description = describeProperty(docs, schema, name, one.Description, one)
	}
}

// describeProperty returns a property's description with its values and bounds.
func describeProperty(
	docs map[string]string,
	schema, property, text string,
	s *huma.Schema,
) string {
	var parts []string
	values := s.Enum
	if s.Items != nil && len(values) == 0 {
		values = s.Items.Enum
	}
	for _, v := range values {
		doc, ok := docs[fmt.Sprintf("%s.%s.%v", schema, property, v)]
		if !ok {
			doc, ok = docs[fmt.Sprintf("%s.%v", property, v)]
		}
		said := regexp.MustCompile(`(^|\W)` + regexp.QuoteMeta(fmt.Sprint(v)) + `:`).
			MatchString(text)
		if ok && !said {
			parts = append(parts, fmt.Sprintf("%v: %s.", v, doc))
		}
	}
	if b := boundsText(s); b != "" {
		parts = append(parts, b+".")
	}
	parts = slices.Insert(parts, 0, text)
	return strings.TrimSpace(strings.Join(parts, " "))
}

// boundsText describes the bounds of a schema: a length, a number, or a count of items.
func boundsText(s *huma.Schema) string {
	switch {
	case s.MaxLength != nil:
		return rangeText(s.MinLength, s.MaxLength, "characters")
	case s.MinLength != nil:
		return fmt.Sprintf("At least %d characters", *s.MinLength)
	case s.MaxItems != nil:
		return rangeText(s.MinItems, s.MaxItems, "items")
	case s.Minimum != nil && s.Maximum != nil && *s.Maximum < math.MaxInt32:
		return fmt.Sprintf("From %.0f to %.0f", *s.Minimum, *s.Maximum)
	case s.Minimum != nil && *s.Minimum > math.MinInt32:
		return fmt.Sprintf("At least %.0f", *s.Minimum)
	default:
		return ""
	}
}

func rangeText(least, most *int, what string) string {
	if least == nil || *least == 0 {
		return fmt.Sprintf("At most %d %s", *most, what)
	}
	return fmt.Sprintf("%d to %d %s", *least, *most, what)
}
