package client

import "net/http"

// AdminKey and EncryptionKeys are the keys of test deployments. Runners set them, and every client
// sends AdminKey. They protect nothing.
const (
	AdminKey       = "crl_qLbAnHb8yyTu_zomOmwo0gkPSBupRpOqqalIK8VNEsNdOtU5UqlBkmGF4V8rBg"
	EncryptionKeys = "test:WEQvYffiFNLA16/3yx1lDF4gfFLh2YtmTMI+urZwwLU="
)

// WithKey returns a client of the same deployment that sends another key (empty: none). It shares
// the connections.
func (c *Client) WithKey(key string) *Client {
	other := *c
	other.key = key
	return &other
}

func (c *Client) authorize(h http.Header) {
	if c.key != "" && h.Get("Authorization") == "" {
		h.Set("Authorization", "Bearer "+c.key)
	}
}
