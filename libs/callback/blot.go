package callback

import "strings"

const redacted = "REDACTED"

// worthwhile is how long a secret is at least that is blotted out: shorter ones would tear ordinary words apart.
const worthwhile = 6

// blot takes secrets out of what is recorded: a receiver may send back what it got, whole, without its scheme ("Bearer …"), or cut off by the end of the excerpt.
func blot(r Result, secrets []secretHeader) Result {
	for _, s := range secrets {
		r.Excerpt, r.Error = blotText(r.Excerpt, s.value), blotText(r.Error, s.value)
		if _, credentials, ok := strings.Cut(s.value, " "); ok {
			r.Excerpt, r.Error = blotText(r.Excerpt, credentials), blotText(r.Error, credentials)
		}
	}
	return r
}

func blotText(text, secret string) string {
	if len(secret) < worthwhile || text == "" {
		return text
	}
	text = strings.ReplaceAll(text, secret, redacted)
	for n := min(len(secret)-1, len(text)); n >= worthwhile; n-- {
		if strings.HasSuffix(text, secret[:n]) {
			return cut(text[:len(text)-n] + redacted)
		}
	}
	return cut(text)
}
