package callback

import (
	"encoding/base64"
	"net/url"
	"strings"
)

// Userinfo removes the user and the password from a URL. plain is the URL without them.
// authorization is the equivalent header, empty if they cannot be parsed or contain variables. ok
// tells whether the URL has userinfo. Only that part of the URL is parsed, because other parts may
// contain variables.
func Userinfo(s string) (plain, authorization string, ok bool) {
	begin := strings.Index(s, "://") + len("://")
	if begin < len("://") {
		return s, "", false
	}
	end := len(s)
	if i := strings.IndexAny(s[begin:], "/?#"); i >= 0 {
		end = begin + i
	}
	at := strings.LastIndexByte(s[begin:end], '@')
	if at < 0 {
		return s, "", false
	}
	u, err := url.Parse("x://" + s[begin:begin+at] + "@host")
	plain = s[:begin] + s[begin+at+1:]
	if err != nil || u.User == nil {
		return plain, "", true
	}
	return plain, basic(u.User), true
}

// basic returns the Authorization header for a user and a password.
func basic(u *url.Userinfo) string {
	password, _ := u.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password))
}
