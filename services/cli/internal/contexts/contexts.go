// Package contexts keeps the deployments that a user works with, in a file: the address of each
// API, the app, and where the key is. It stores no key.
package contexts

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/carillon-timer/carillon/libs/yamltext"
)

// Context is one deployment.
type Context struct {
	API     string `json:"api"`                // address of the API
	App     string `json:"app,omitempty"`      // app of commands that name none
	KeyFile string `json:"key_file,omitempty"` // file with the API key
	CAFile  string `json:"ca_file,omitempty"`  // PEM file of the CA that signed the API's certificate
}

// File is the file of contexts.
type File struct {
	Current  string             `json:"current,omitempty"`
	Contexts map[string]Context `json:"contexts"`

	path string
}

// DefaultPath returns the path of the file in the user's configuration directory.
func DefaultPath() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("finding the file of contexts: %w", err)
	}
	return filepath.Join(dir, "carillon", "contexts.yaml"), nil
}

// Load reads the file. A missing file has no contexts.
func Load(path string) (*File, error) {
	f := &File{path: path}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the file of contexts: %w", err)
	}
	_, err = yamltext.Decode(data) // the next reader sees only the first document
	if err == nil {
		err = yaml.UnmarshalStrict(data, f)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the file of contexts %s: %w", path, err)
	}
	if f.Contexts == nil {
		f.Contexts = make(map[string]Context)
	}
	return f, nil
}

// Save writes the file. It replaces the old one at once, so a crash leaves one of the two. Of two
// concurrent calls the later one wins.
func (f *File) Save() error {
	data, err := yaml.Marshal(f)
	if err != nil {
		return fmt.Errorf("encoding the contexts: %w", err)
	}
	dir := filepath.Dir(f.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("writing the file of contexts: %w", err)
	}
	temporary, err := os.CreateTemp(dir, ".contexts-")
	if err != nil {
		return fmt.Errorf("writing the file of contexts: %w", err)
	}
	defer os.Remove(temporary.Name()) // it is gone after the rename
	_, err = temporary.Write(data)
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), f.path)
	}
	if err != nil {
		return fmt.Errorf("writing the file of contexts: %w", err)
	}
	return nil
}

// Names returns the names of all contexts, sorted.
func (f *File) Names() []string { return slices.Sorted(maps.Keys(f.Contexts)) }

// Find returns a context by its name. The empty name is the current context, which may not exist.
func (f *File) Find(name string) (Context, error) {
	if name == "" {
		name = f.Current
	}
	if name == "" {
		return Context{}, nil
	}
	c, ok := f.Contexts[name]
	if !ok {
		known := strings.Join(f.Names(), ", ")
		if known == "" {
			known = "none"
		}
		return c, fmt.Errorf(
			"no context %q (there is %s): make it by carillon context set %s --api ADDRESS",
			name,
			known,
			name,
		)
	}
	return c, nil
}
