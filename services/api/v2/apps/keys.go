package apps

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

// APIKeyBody is the public part of an API key.
type APIKeyBody struct {
	ID        string `json:"id" doc:"Its public part: crl_<id>_…"`
	App       string `json:"app,omitempty" doc:"Absent where it is for every app."`
	Name      string `json:"name" doc:"For people."`
	Scope     string `json:"scope" enum:"read,operate,write,admin"`
	CreatedAt string `json:"created_at" format:"date-time"`
}

type keysOutput struct{ Body keysBody }

type keysBody struct {
	Items []APIKeyBody `json:"items" nullable:"false"`
}

type newKeyBody struct {
	Name  string `json:"name" minLength:"1" maxLength:"128" doc:"For people." example:"billing service"`
	Scope string `json:"scope" enum:"read,operate,write,admin" doc:"What it may do; each scope includes those before it."`
}

type newKeyInput struct {
	param.PathAppParam
	param.DryRunParam
	Body newKeyBody
}

type newDeploymentKeyInput struct {
	param.DryRunParam
	Body newKeyBody
}

type madeKeyOutput struct{ Body madeKeyBody }

type madeKeyBody struct {
	APIKeyBody
	Key string `json:"key,omitempty" doc:"Authorization: Bearer <key>. It is shown only this once; only its hash is stored. Absent in a dry run, which makes none."`
}

type keyParam struct {
	param.PathAppParam
	DeploymentKeyParam
	param.DryRunParam
}

type deploymentKeyInput struct {
	DeploymentKeyParam
	param.DryRunParam
}

// DeploymentKeyParam identifies an API key.
type DeploymentKeyParam struct {
	ID string `path:"id" pattern:"^[0-9A-Za-z]{1,64}$" doc:"The key's id."`
}

func (s *Resource) listKeys(ctx context.Context, in *param.PathAppParam) (*keysOutput, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.App); err != nil {
		return nil, err
	}
	return s.keysOutputOf(ctx, in.App)
}

func (s *Resource) createKey(ctx context.Context, in *newKeyInput) (*madeKeyOutput, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.App); err != nil {
		return nil, err
	}
	if err := input.CheckNewApp("path.app", in.App); err != nil {
		return nil, err
	}
	return s.makeKey(ctx, in.App, &in.Body)
}

func (s *Resource) revokeKey(ctx context.Context, in *keyParam) (*struct{}, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.App); err != nil {
		return nil, err
	}
	if err := input.CheckText("path.app", in.App, timer.MaxAppLen); err != nil {
		return nil, err
	}
	return s.revoke(ctx, in.App, in.ID)
}

func (s *Resource) listDeploymentKeys(ctx context.Context, _ *struct{}) (*keysOutput, error) {
	if err := s.Auth.RequireDeploymentKey(ctx); err != nil {
		return nil, err
	}
	return s.keysOutputOf(ctx, "")
}

func (s *Resource) createDeploymentKey(
	ctx context.Context,
	in *newDeploymentKeyInput,
) (*madeKeyOutput, error) {
	if err := s.Auth.RequireDeploymentKey(ctx); err != nil {
		return nil, err
	}
	return s.makeKey(ctx, "", &in.Body)
}

func (s *Resource) revokeDeploymentKey(
	ctx context.Context,
	in *deploymentKeyInput,
) (*struct{}, error) {
	if err := s.Auth.RequireDeploymentKey(ctx); err != nil {
		return nil, err
	}
	return s.revoke(ctx, "", in.ID)
}

func (s *Resource) keysOutputOf(ctx context.Context, app string) (*keysOutput, error) {
	keys, err := s.Store.APIKeys(ctx, app)
	if err != nil {
		return nil, err
	}
	out := &keysOutput{keysBody{Items: make([]APIKeyBody, len(keys))}}
	for i := range keys {
		out.Body.Items[i] = showKey(&keys[i])
	}
	return out, nil
}

// notMade is the id of a key that a dry run does not make.
const notMade = "0"

// makeKey creates a key and returns it. If the answer is lost, nobody has the key; it appears in
// the list and can be revoked.
func (s *Resource) makeKey(ctx context.Context, app string, b *newKeyBody) (*madeKeyOutput, error) {
	if err := input.CheckText("name", b.Name, timer.MaxNameLen); err != nil {
		return nil, err
	}
	scope, err := apikey.ParseScope(b.Scope)
	if err != nil {
		return nil, timer.Invalid("scope", err.Error())
	}
	k := store.APIKey{
		ID:        notMade,
		App:       app,
		Name:      b.Name,
		Scope:     string(scope),
		Hash:      make([]byte, sha256.Size),
		CreatedMS: s.Now().UnixMilli(),
	}
	if store.IsDryRun(ctx) {
		err := s.Store.AddAPIKey(ctx, k)
		return &madeKeyOutput{madeKeyBody{APIKeyBody: showKey(&k)}}, err
	}
	key := apikey.New()
	hash := key.Hash()
	k.ID, k.Hash = key.ID(), hash[:]
	if err := s.Store.AddAPIKey(ctx, k); err != nil {
		return nil, err
	}
	s.Auth.Forget(k.ID)
	return &madeKeyOutput{madeKeyBody{APIKeyBody: showKey(&k), Key: key.Reveal()}}, nil
}

func (s *Resource) revoke(ctx context.Context, app, id string) (*struct{}, error) {
	err := s.Store.RevokeAPIKey(ctx, app, id)
	if app == "" && timer.CodeOf(err) == timer.CodeNotFound {
		return nil, &timer.Error{
			Code: timer.CodeNotFound,
			Msg: fmt.Sprintf(
				"the deployment has no API key %s; a key of an app is revoked in its app",
				id,
			),
		}
	}
	if err != nil {
		return nil, err
	}
	s.Auth.Forget(id) // after a dry run the next request reads the key again
	return nil, nil   //nolint:nilnil // 204
}

func showKey(k *store.APIKey) APIKeyBody {
	return APIKeyBody{
		ID:        k.ID,
		App:       k.App,
		Name:      k.Name,
		Scope:     k.Scope,
		CreatedAt: input.Instant(k.CreatedMS),
	}
}
