package compose_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/compose"
)

// dashboard has the fields of a dashboard that affect its queries.
type dashboard struct {
	UID           string
	Title         string
	SchemaVersion int
	Templating    struct {
		List []struct {
			Name, Type string
			Query      any // a text; of a query, an object
		}
	}
	Panels []panel
}

type panel struct {
	ID          int
	Type, Title string
	Targets     []target
}

// target is a query of a panel, with all its fields.
type target map[string]any

// quiet are the queries that may return no numbers in a young, healthy deployment, each with the
// reason. The others must return some.
var quiet = map[string]string{
	`count(carillon_clock_steady{namespace=~".*"} == 0)`:                                                                  "no clock is unsteady",
	`topk(10, sum by (app) (rate(carillon_app_fires_total{namespace=~".*",outcome="failed"}[$__rate_interval])) > 0)`:     "no fire fails",
	`histogram_quantile(0.5, sum by (le) (rate(carillon_migrator_batch_size_bucket{namespace=~".*"}[$__rate_interval])))`: "the api expands a timer that it makes, migrators go on later",
}

// grafana checks that the dashboard opens without login, and that its panels have numbers.
func grafana(t *testing.T, env *environment) {
	var health struct{ Version string }
	require.NoError(t, get(t, env.Grafana+"/api/health", &health))
	if health.Version == "stand-in" {
		t.Log("!!! NOT TESTED: the dashboard in Grafana: a stand-in answers for it")
		return
	}
	var source struct{ Status string }
	require.Eventually(t, func() bool {
		return get(
			t,
			env.Grafana+"/api/datasources/proxy/uid/carillon/api/v1/query?query=up",
			&source,
		) == nil &&
			source.Status == "success"
	}, patience, time.Second)
	var found []struct{ UID, Title string }
	require.Eventually(t, func() bool {
		return get(t, env.Grafana+"/api/search?type=dash-db", &found) == nil && len(found) == 1
	}, patience, time.Second)
	said, err := env.Compose(t.Context(), "logs", "--no-color", "--no-log-prefix", "grafana")
	require.NoError(t, err)
	require.Empty(
		t,
		regexp.MustCompile(`(?m)^logger=provisioning.* level=(?:warn|error) .*$`).
			FindAllString(said, -1),
	)

	file := ours(t)
	var home, shown struct {
		Meta      struct{ Provisioned, CanSave bool }
		Dashboard dashboard
	}
	require.NoError(t, get(t, env.Grafana+"/api/dashboards/home", &home))
	require.Equal(t, *file, home.Dashboard, "the home dashboard")
	require.NoError(t, get(t, env.Grafana+"/api/dashboards/uid/"+file.UID, &shown))
	require.True(t, shown.Meta.Provisioned)
	require.False(t, shown.Meta.CanSave, "not logged in")
	require.Equal(t, *file, shown.Dashboard)
	t.Logf("Grafana %s", health.Version)
	env.numbers(t, &shown.Dashboard)
}

// ours reads the dashboard from the repository.
func ours(t *testing.T) *dashboard {
	t.Helper()
	root, err := cluster.Root()
	require.NoError(t, err)
	text, err := os.ReadFile(root + "/deploy/grafana/carillon.json")
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(text, &d))
	return &d
}

// numbers runs every panel's queries until all that are not quiet return numbers. Timers are called
// meanwhile: a rate needs two samples, and a counter with labels exists from its first event on.
func (env *environment) numbers(t *testing.T, d *dashboard) {
	t.Helper()
	sources := env.sources(t, d)
	var without map[string]string
	var asked int
	for end, round := time.Now().Add(patience), 1; ; round++ {
		env.checkDelivery(t, "seen-"+strconv.Itoa(round))
		env.pause(t, "paused-"+strconv.Itoa(round))
		without, asked = make(map[string]string), 0
		for i := range d.Panels {
			maps.Copy(without, env.ask(t, &d.Panels[i], sources))
			asked += len(d.Panels[i].Targets)
		}
		wanting := maps.Clone(without)
		maps.DeleteFunc(wanting, func(expr, _ string) bool { return quiet[expr] != "" })
		if len(wanting) == 0 {
			break
		}
		require.True(t, time.Now().Before(end), "queries without numbers: %v", wanting)
	}
	require.NotZero(t, asked)
	t.Logf("%d queries, %d with numbers", asked, asked-len(without))
	for _, expr := range slices.Sorted(maps.Keys(without)) {
		t.Logf("no numbers: %s: %s: %s", without[expr], expr, quiet[expr])
	}
}

// pause makes a change that executors are notified of.
func (env *environment) pause(t *testing.T, name string) {
	t.Helper()
	made, _, err := env.api.Create(t.Context(), client.NewTimer{
		App:      "demo",
		Name:     name,
		Status:   "active",
		Schedule: client.Every(time.Hour),
		Target:   client.Post("http://" + compose.Receiver + "/" + name),
	})
	require.NoError(t, err)
	_, err = env.api.Pause(t.Context(), "demo", made.TimerID(), "seen", time.Time{})
	require.NoError(t, err)
}

// sources returns the data source of each variable of a dashboard: the default one of its type, as
// in a browser without a selection.
func (env *environment) sources(t *testing.T, d *dashboard) *strings.Replacer {
	t.Helper()
	var settings struct {
		DefaultDatasource string
		Datasources       map[string]struct{ UID, Type string }
	}
	require.NoError(t, get(t, env.Grafana+"/api/frontend/settings", &settings))
	var pairs []string
	for _, v := range d.Templating.List {
		if v.Name == "namespace" {
			continue // ask fills it in
		}
		require.Equal(
			t,
			"datasource",
			v.Type,
			"variable %s: the test fills in sources and the namespace only",
			v.Name,
		)
		source := settings.Datasources[settings.DefaultDatasource]
		require.Equal(t, v.Query, source.Type)
		pairs = append(pairs, "${"+v.Name+"}", source.UID)
	}
	return strings.NewReplacer(pairs...)
}

// ask runs a panel's queries as a browser does, with $__rate_interval for Grafana to fill in. It
// returns the queries without a number. No query may fail.
func (env *environment) ask(t *testing.T, p *panel, sources *strings.Replacer) map[string]string {
	t.Helper()
	if len(p.Targets) == 0 {
		require.Equal(t, "row", p.Type, "panel %d has no query", p.ID)
		return nil
	}
	now := time.Now()
	queries := make([]target, 0, len(p.Targets))
	for _, of := range p.Targets {
		q := maps.Clone(of)
		q["expr"] = strings.ReplaceAll(of["expr"].(string), "$namespace", ".*") // All, as at first
		source := of["datasource"].(map[string]any)
		q["datasource"] = map[string]any{
			"type": source["type"],
			"uid":  sources.Replace(source["uid"].(string)),
		}
		q["intervalMs"], q["maxDataPoints"], q["utcOffsetSec"] = 5000, 720, 0
		queries = append(queries, q)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	body, err := json.Marshal(map[string]any{
		"queries": queries,
		"from":    strconv.FormatInt(now.Add(-time.Hour).UnixMilli(), 10),
		"to":      strconv.FormatInt(now.UnixMilli(), 10),
	})
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(
		ctx,
		http.MethodPost,
		env.Grafana+"/api/ds/query",
		bytes.NewReader(body),
	)
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	var answer struct {
		Message string
		Results map[string]struct {
			Status int
			Error  string
			Frames []struct {
				Data struct{ Values [][]*float64 }
			}
		}
	}
	require.NoError(t, json.NewDecoder(res.Body).Decode(&answer))
	without := make(map[string]string)
	for _, q := range queries {
		result := answer.Results[q["refId"].(string)]
		about := fmt.Sprintf("panel %d, %s, %v", p.ID, p.Title, q["refId"])
		require.Equal(
			t,
			"200 ",
			fmt.Sprint(result.Status, " ", result.Error),
			"%s: %v: %s %s",
			about,
			q["expr"],
			res.Status,
			answer.Message,
		)
		has := false
		for _, f := range result.Frames {
			// The first values are instants.
			for _, values := range f.Data.Values[min(1, len(f.Data.Values)):] {
				has = has || slices.ContainsFunc(values, func(v *float64) bool { return v != nil })
			}
		}
		if !has {
			without[q["expr"].(string)] = about
		}
	}
	return without
}
