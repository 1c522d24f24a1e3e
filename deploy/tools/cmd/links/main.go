// Command links checks a built site, without a network:
//
//	cd deploy/tools && go run ./cmd/links ../../dist/docs
//
// It complains of links to pages, files or anchors that do not exist, of anchors that a page has
// twice, and of scripts, styles and images that a page would load from elsewhere.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

func main() {
	if len(os.Args) != 2 { //nolint:mnd // the program and the folder
		fmt.Fprintln(os.Stderr, "links: give the folder of the site")
		os.Exit(2)
	}
	complaints, pages, links, err := check(os.DirFS(os.Args[1]))
	for _, c := range complaints {
		fmt.Fprintln(os.Stderr, "links:", c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "links:", err)
	}
	if err != nil || len(complaints) > 0 {
		os.Exit(1)
	}
	fmt.Fprintf(os.Stdout, "links: %d pages, %d links: ok\n", pages, links)
}

// page is what others may link to, and what they link to.
type page struct {
	anchors map[string]int
	links   []string // of <a>
	loads   []string // scripts, styles and images
}

// check returns what is wrong with the pages below root, in order of their names.
func check(root fs.FS) (complaints []string, pages, links int, err error) {
	all, err := read(root)
	if err != nil {
		return nil, 0, 0, err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p := all[name]
		for _, anchor := range slices.Sorted(maps.Keys(p.anchors)) {
			if p.anchors[anchor] > 1 {
				complaints = append(complaints, name+": has the anchor #"+anchor+" twice")
			}
		}
		for _, to := range p.loads {
			if u, err := url.Parse(to); err != nil || u.Host != "" {
				complaints = append(complaints, name+": loads "+to+" from elsewhere")
			}
		}
		for _, to := range slices.Concat(p.links, p.loads) {
			links++
			if why := follow(root, all, name, to); why != "" {
				complaints = append(complaints, fmt.Sprintf("%s: %s %s", name, to, why))
			}
		}
	}
	return complaints, len(all), links, nil
}

// read parses all pages.
func read(root fs.FS) (map[string]page, error) {
	all := make(map[string]page)
	err := fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || path.Ext(name) != ".html" {
			return err
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		tree, err := html.Parse(bytes.NewReader(text))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all[name] = parse(tree)
		return nil
	})
	if err == nil && len(all) == 0 {
		err = errors.New("there is no page")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the site: %w", err)
	}
	return all, nil
}

func parse(tree *html.Node) page {
	p := page{anchors: make(map[string]int)}
	for n := range tree.Descendants() {
		for _, a := range n.Attr {
			switch {
			case a.Key == "id":
				p.anchors[a.Val]++
			case a.Key == "href" && n.Data == "a":
				p.links = append(p.links, a.Val)
			case a.Key == "href" || a.Key == "src":
				p.loads = append(p.loads, a.Val)
			}
		}
	}
	return p
}

// follow says what is wrong with a link from a page; nothing where it leads somewhere.
func follow(root fs.FS, all map[string]page, from, to string) string {
	u, err := url.Parse(to)
	switch {
	case err != nil:
		return "is no address"
	case u.Scheme != "" || u.Host != "":
		return "" // elsewhere: not checked without a network
	case strings.HasPrefix(u.Path, "/"):
		return "works only at the root of a server"
	}
	name := from
	if u.Path != "" {
		name = path.Join(path.Dir(from), u.Path)
	}
	if strings.HasSuffix(u.Path, "/") {
		name = path.Join(name, "index.html")
	}
	if !fs.ValidPath(name) {
		return "leads outside of the site"
	}
	if info, err := fs.Stat(root, name); err != nil || info.IsDir() {
		return "does not exist"
	}
	if p, ok := all[name]; ok && u.Fragment != "" && p.anchors[u.Fragment] == 0 {
		return "is no anchor there"
	}
	return ""
}
