package manifest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/carillon-timer/carillon/libs/yamltext/yamltexttest"
	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/manifest"
)

// TestOfKeepsWhatRequestsTake makes an answer with every field of the API's description. What Of
// keeps must be a field of the request, because the API refuses others.
func TestOfKeepsWhatRequestsTake(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../api/openapi.yaml")
	require.NoError(t, err)
	var doc struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &doc))
	for kind, schemas := range map[manifest.Kind][2]string{
		manifest.Timer:    {"TimerBody", "NewTimerBody"},
		manifest.Calendar: {"CalendarBody", "PutCalendarBody"},
	} {
		answer := client.Object{}
		for name := range doc.Components.Schemas[schemas[0]].Properties {
			answer[name] = "x"
		}
		require.NotEmpty(t, answer, schemas[0])
		for name := range manifest.Of(kind, answer).Body {
			require.Contains(t, doc.Components.Schemas[schemas[1]].Properties, name)
		}
	}
}

// TestTextsComeBack checks that a definition is the same after it was written and read, whatever its
// texts are.
func TestTextsComeBack(t *testing.T) {
	t.Parallel()
	for _, text := range slices.Concat(yamltexttest.Words(), yamltexttest.Characters()) {
		was := manifest.Manifest{Kind: manifest.Timer, App: "shop", Name: "a", Body: client.Object{
			"app": "shop", "name": "a",
			"labels": client.Object{"k": text, text: "v"},
			"target": client.Object{"body": text, "query": client.Object{text: []any{text, "x"}}},
			"retry":  client.Object{"attempts": json.Number("3")},
		}}
		for _, write := range []func() ([]byte, error){was.YAML, was.JSON} {
			data, err := write()
			require.NoError(t, err, "%q", text)
			var other map[string]any
			require.NoError(t, yaml.UnmarshalStrict(data, &other), "%q by another reader", text)
			require.Contains(t, other["labels"], text)
			all, err := manifest.Parse(data, "a.yaml", "")
			require.NoError(t, err, "%q", text)
			require.Len(t, all, 1, "%q", text)
			want, err := json.Marshal(was.Body)
			require.NoError(t, err)
			got, err := json.Marshal(all[0].Body)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got), "%q", text)
			diff, err := manifest.Diff(&was, &all[0])
			require.NoError(t, err)
			require.Empty(t, diff, "%q", text)
		}
	}
}

// TestKeysAreTexts checks that the keys of a file are those that it has, and not what YAML 1.1 makes
// of them.
func TestKeysAreTexts(t *testing.T) {
	t.Parallel()
	text := []byte("name: a\nlabels: {y: x, on: call, 012: x}\n")
	all, err := manifest.Parse(text, "a.yaml", "shop")
	require.NoError(t, err)
	labels := all[0].Body.Object("labels")
	require.Equal(t, client.Object{"y": "x", "on": "call", "012": "x"}, labels)
	for twice, why := range map[string]string{
		"name: a\nname: b\n":             `"name" already set`,
		"name: a\nl: {y: 1, \"y\": 2}\n": `"y" already set`,
		`{"name":"a","l":{"y":1,"y":2}}`: `"body.l.y" expected each field once`,
	} {
		_, err := manifest.Parse([]byte(twice), "a.yaml", "shop")
		require.ErrorContains(t, err, why)
	}
	raw := []byte(`{"name":"a","labels":{"k":"a` + "\u0085\u007f" + `\ud83d\ude00"}}`)
	all, err = manifest.Parse(raw, "a.json", "shop")
	require.NoError(t, err)
	require.Equal(t, "a\u0085\u007f😀", all[0].Body.Object("labels").Text("k"))
}

// TestNamesAreTexts checks that what YAML reads as another value names no other app or calendar.
func TestNamesAreTexts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"app: 0123\nname: a":            "f, document 1: app: expected a text, found 83: quote it",
		"app: on\nname: a":              "app: expected a text, found true",
		"kind: calendar\nname: 0x10":    "name: expected a text, found 16",
		"kind: 1\nname: a":              "kind: expected a text, found 1",
		"{\"app\":\"a\",\"name\":1.50}": "name: expected a text, found 1.5",
	} {
		_, err := manifest.Parse([]byte(text), "f", "shop")
		require.ErrorContains(t, err, want, text)
	}
	all, err := manifest.Parse([]byte("app: \"0123\"\nname: '1.10'"), "f", "shop")
	require.NoError(t, err)
	require.Equal(t, "0123/1.10", all[0].App+"/"+all[0].Name)
}

// TestNoDocumentIsLeftOut checks that a file has all its definitions, or is refused: apply --prune
// deletes the timers that it does not find.
func TestNoDocumentIsLeftOut(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"name: a\n---\nname: b\n", "name: a\r\n---\r\nname: b\r\n", "---\r\nname: a\r\n--- # b\r\nname: b",
	} {
		all, err := manifest.Parse([]byte(text), "a.yaml", "shop")
		require.NoError(t, err, "%q", text)
		require.Len(t, all, 2, "%q", text)
		require.Equal(t, "b", all[1].Name)
	}
	for _, text := range []string{
		"name: a\n...\nname: b\n", "name: a\n--- {name: b}\n", "{\n\"name\": \"a\"}\n{\"name\": \"b\"}\n",
	} {
		_, err := manifest.Parse([]byte(text), "a.yaml", "shop")
		require.ErrorContains(t, err, "a.yaml, document 1: yaml: expected one document", "%q", text)
		require.ErrorContains(t, err, "put --- on a line of its own", "%q", text)
	}
}

// TestBytesAreNotChanged checks that bytes of !!binary are refused, with the field and the remedy,
// unless they are text.
func TestBytesAreNotChanged(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"target: {body: !!binary /wB7}":                     "line 2: target.body: expected UTF-8 text",
		"target:\n  body: !!binary |\n    /wB7\n    /wB7":   "the same base64 as target.body_base64",
		"targets: [{url: x}, {body: !!binary /wB7}]":        "as targets[1].body_base64, without the tag",
		"labels: {a: !<tag:yaml.org,2002:binary> /wB7}":     "labels.a: expected UTF-8 text",
		"labels: {? !!binary /wB7 : a}":                     "leave the tag out, and give a text",
		"labels: {a: &x !!binary /wB7}\ntarget: {body: *x}": "labels.a: expected UTF-8 text",
	} {
		_, err := manifest.Parse([]byte("name: a\n"+text+"\n"), "f", "shop")
		require.ErrorContains(t, err, want, text)
	}
	all, err := manifest.Parse([]byte("name: a\ntarget: {body: !!binary Y2Fmw6k=}\n"), "f", "shop")
	require.NoError(t, err)
	require.Equal(t, "café", all[0].Body.Object("target").Text("body"))
}

// TestMountedConfigMapIsReadOnce checks the layout in which Kubernetes mounts a ConfigMap, and that
// folders are read whose own names were given, also with a dot.
func TestMountedConfigMapIsReadOnce(t *testing.T) {
	t.Parallel()
	mount := filepath.Join(t.TempDir(), ".mount")
	hidden := filepath.Join(mount, "..2026_11_29")
	require.NoError(t, os.MkdirAll(hidden, 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(mount, "below"), 0o700))
	write := func(file, name string) {
		require.NoError(t, os.WriteFile(file, []byte("name: "+name+"\n"), 0o600))
	}
	write(filepath.Join(hidden, "a.yaml"), "a")
	write(filepath.Join(mount, "below", "b.yaml"), "b")
	require.NoError(t, os.Symlink("..2026_11_29", filepath.Join(mount, "..data")))
	require.NoError(t, os.Symlink("..data/a.yaml", filepath.Join(mount, "a.yaml")))
	all, err := manifest.Read([]string{mount}, nil, "shop")
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "a", all[0].Name)
	require.Equal(t, "b", all[1].Name)
	all, err = manifest.Read([]string{hidden}, nil, "shop")
	require.NoError(t, err)
	require.Len(t, all, 1)
}

// TestLinksToFoldersAreRead checks that the definitions behind links to folders are read, each
// once, and that a link which leads nowhere is an error: apply --prune deletes the timers that it
// does not find.
func TestLinksToFoldersAreRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(path string) string { return filepath.Join(dir, filepath.FromSlash(path)) }
	for _, folder := range []string{"tm/own", "shared/team/below"} {
		require.NoError(t, os.MkdirAll(at(folder), 0o700))
	}
	for file, name := range map[string]string{
		"tm/a.yaml": "a", "tm/own/b.yaml": "b", "shared/team/c.yaml": "c",
		"shared/team/below/d.yaml": "d",
	} {
		require.NoError(t, os.WriteFile(at(file), []byte("name: "+name+"\n"), 0o600))
	}
	for link, to := range map[string]string{
		"current":                "tm",
		"tm/team":                "../shared/team",
		"tm/twice":               "team",
		"tm/own/up":              "..",
		"shared/team/below/loop": "../../team",
		"tm/.hidden":             "../shared",
	} {
		require.NoError(t, os.Symlink(to, at(link)))
	}
	for _, root := range []string{"tm", "current"} {
		all, err := manifest.Read([]string{at(root)}, nil, "shop")
		require.NoError(t, err, root)
		var names []string
		for i := range all {
			names = append(names, all[i].Name)
		}
		require.Equal(t, []string{"a", "b", "d", "c"}, names, root)
	}
	require.NoError(t, os.Symlink("nowhere", at("tm/gone")))
	_, err := manifest.Read([]string{at("tm")}, nil, "shop")
	require.ErrorContains(t, err, "tm/gone: no such file")
}
