package ui

import "net/url"

// listing is a page of a list that filters select. The filters are parameters of the page and, with
// the same names, of the API.
type listing struct {
	Filter  map[string]string // as the viewer entered it
	Refused *apiError         // a filter that the API does not understand
	Next    string            // address of the next page
	Later   bool              // this is not the first page
	Cursor  string            // of this page

	query, kept url.Values // of the API, and of the page
}

// readListing reads the filters of a request. Those in instants are instants, which viewers enter in
// the form of the pages.
func (q *request) readListing(limit string, filters, instants []string) listing {
	l := listing{
		Filter: make(map[string]string),
		query:  url.Values{"limit": {limit}}, kept: make(url.Values),
	}
	given := q.r.URL.Query()
	read := func(name, value string) {
		if given.Get(name) == "" {
			return
		}
		l.Filter[name] = given.Get(name)
		l.kept.Set(name, given.Get(name))
		l.query.Set(name, value)
	}
	for _, name := range filters {
		read(name, given.Get(name))
	}
	for _, name := range instants {
		read(name, instantOf(given.Get(name)))
	}
	if c := given.Get("cursor"); c != "" {
		l.query.Set("cursor", c)
		l.Later, l.Cursor = true, c
	}
	return l
}

// read reads a page of the list from the API. Wrong filters are shown beside an empty page.
func (l *listing) read(q *request, path string, out any) error {
	return l.refuse(q.get(path, l.query, out))
}

// refuse notes an error about a filter, and returns any other.
func (l *listing) refuse(err error) error {
	if err == nil {
		return nil
	}
	if l.Refused = refusedInput(err); l.Refused == nil {
		return err
	}
	return nil
}

// end notes where the next page is.
func (l *listing) end(path, cursor string) {
	if cursor != "" {
		l.kept.Set("cursor", cursor)
		l.Next = path + "?" + l.kept.Encode()
	}
}
