package callback

import (
	"encoding/base64"
	"net/url"
	"strings"
)

// Userinfo takes the user and the password out of a URL: plain is the URL without them, and
// authorization the header that they are sent as, empty where they cannot be read, or have
// variables. ok tells whether the URL has any. Only that part of the URL is read: variables may
// stand elsewhere.
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

// basic is the Authorization header of a user and a password.
func basic(u *url.Userinfo) string {
	password, _ := u.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password))
}
