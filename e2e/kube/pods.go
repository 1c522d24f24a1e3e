package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/carillon-timer/carillon/e2e/cluster"
)

// Pod is a pod of a service.
type Pod struct {
	Name     string
	Service  string // component: api, …; also setup and test
	IP       string
	Image    string
	Ready    bool
	Restarts int
}

// Pods returns the pods of a service, or of all services with "", except those being deleted.
func (r *Release) Pods(ctx context.Context, service string) ([]Pod, error) {
	selector := "app.kubernetes.io/instance=" + name
	if service != "" {
		selector += ",app.kubernetes.io/component=" + service
	}
	said, err := r.Kubectl(ctx, "get", "pods", "-l", selector, "-o", "json")
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			Metadata struct {
				Name              string
				Labels            map[string]string
				DeletionTimestamp string
			}
			Spec   struct{ Containers []struct{ Image string } }
			Status struct {
				PodIP             string
				ContainerStatuses []struct {
					Ready        bool
					RestartCount int
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(said), &list); err != nil {
		return nil, fmt.Errorf("reading the list of pods: %w", err)
	}
	var pods []Pod
	for _, i := range list.Items {
		if i.Metadata.DeletionTimestamp != "" {
			continue
		}
		p := Pod{
			Name:    i.Metadata.Name,
			Service: i.Metadata.Labels["app.kubernetes.io/component"],
			IP:      i.Status.PodIP,
			Image:   i.Spec.Containers[0].Image,
		}
		for _, c := range i.Status.ContainerStatuses {
			p.Ready, p.Restarts = c.Ready, c.RestartCount
		}
		pods = append(pods, p)
	}
	return pods, nil
}

// Delete deletes a pod by force, as if its node were lost, and returns when it is gone.
func (r *Release) Delete(ctx context.Context, pod string) error {
	_, err := r.Kubectl(ctx, "delete", "pod", pod, "--force", "--grace-period=0")
	return err
}

// WaitReady waits until a service has all its pods, ready.
func (r *Release) WaitReady(ctx context.Context, service string) error {
	_, err := r.Kubectl(ctx, "rollout", "status", "deployment/"+name+"-"+service, "--timeout=2m")
	return err
}

// Refresh reads the current addresses of the API and the pods.
func (r *Release) Refresh(ctx context.Context) error {
	r.api = r.o.API
	if r.api == "" {
		ip, err := r.Kubectl(ctx, "get", "service", name+"-api", "-o", "jsonpath={.spec.clusterIP}")
		if err != nil {
			return err
		}
		r.api = "http://" + strings.TrimSpace(ip)
	}
	pods, err := r.Pods(ctx, "")
	if err != nil {
		return err
	}
	r.procs = make(map[cluster.Role][]*cluster.Process)
	for _, p := range pods {
		role := cluster.Role(p.Service)
		r.procs[role] = append(r.procs[role], cluster.NewRemote(p.Name, "", "http://"+p.IP+":8081"))
	}
	return nil
}
