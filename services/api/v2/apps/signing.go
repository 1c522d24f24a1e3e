package apps

import (
	"context"

	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/signing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/definition"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

// signingKinds maps the kinds of the API and the store to those of package signing.
var signingKinds = map[string]signing.Kind{"hmac": signing.HMAC, "ed25519": signing.Ed25519}

// SigningKeyBody is the public part of a signing key. Embedded structs are exported, because huma
// reads no others.
type SigningKeyBody struct {
	ID        string `json:"id"`
	Kind      string `json:"kind" enum:"hmac,ed25519"`
	Public    string `json:"public,omitempty" doc:"ed25519: what receivers verify by (whpk_…)."`
	CreatedAt string `json:"created_at" format:"date-time"`
}

type signingKeysOutput struct{ Body signingKeysBody }

type signingKeysBody struct {
	Items []SigningKeyBody `json:"items" nullable:"false"`
}

type newSigningKeyInput struct {
	param.PathAppParam
	param.DryRunParam
	Body newSigningKeyBody
}

type newSigningKeyBody struct {
	Kind string `json:"kind,omitempty" enum:"hmac,ed25519" default:"hmac" doc:"How callbacks are signed."`
}

type madeSigningKeyOutput struct{ Body madeSigningKeyBody }

type madeSigningKeyBody struct {
	SigningKeyBody
	Secret string `json:"secret,omitempty" doc:"hmac: what receivers verify by (whsec_…). It is shown only this once. For ed25519 no private key is shown."`
}

type signingKeyParam struct {
	param.PathAppParam
	param.DryRunParam
	ID string `path:"id" pattern:"^[0-9]{1,16}$" doc:"The key's id."`
}

func (s *Resource) listSigningKeys(
	ctx context.Context,
	in *param.PathAppParam,
) (*signingKeysOutput, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.App); err != nil {
		return nil, err
	}
	keys, err := s.Store.SigningKeys(ctx, in.App)
	if err != nil {
		return nil, err
	}
	out := &signingKeysOutput{signingKeysBody{Items: make([]SigningKeyBody, len(keys))}}
	for i := range keys {
		out.Body.Items[i] = showSigningKey(&keys[i])
	}
	return out, nil
}

// createSigningKey adds a key that signs callbacks from now on, besides the existing ones. The
// store refuses a third key of a kind, also of two concurrent requests. A rotation creates a key,
// gives it to the receivers, and retires the old one.
func (s *Resource) createSigningKey(
	ctx context.Context,
	in *newSigningKeyInput,
) (*madeSigningKeyOutput, error) {
	if err := s.Auth.MayChange(ctx, "path.app", in.App); err != nil {
		return nil, err
	}
	if err := input.CheckNewApp("path.app", in.App); err != nil {
		return nil, err
	}
	if s.Secrets == nil {
		return nil, timer.Invalid("kind", definition.NoEncryptionKeys)
	}
	if in.DryRun {
		k := store.SigningKey{
			App: in.App, Kind: in.Body.Kind, CreatedMS: s.Now().UnixMilli(), Secret: "",
		}
		err := s.Store.AddSigningKey(ctx, in.App, k)
		return &madeSigningKeyOutput{madeSigningKeyBody{SigningKeyBody: showSigningKey(&k)}}, err
	}
	key, err := signing.NewKey(signingKinds[in.Body.Kind])
	if err != nil {
		return nil, err
	}
	k := store.SigningKey{
		ID:        s.IDs.Next(),
		App:       in.App,
		Kind:      in.Body.Kind,
		Public:    key.Public(),
		CreatedMS: s.Now().UnixMilli(),
		Secret: s.Secrets.Seal(
			encryption.NewSecret(key.Reveal()),
			encryption.Binding{App: in.App, Use: encryption.UseSigning},
		),
	}
	if err := s.Store.AddSigningKey(ctx, in.App, k); err != nil {
		return nil, err
	}
	out := &madeSigningKeyOutput{madeSigningKeyBody{SigningKeyBody: showSigningKey(&k)}}
	if key.Kind() == signing.HMAC {
		out.Body.Secret = key.Reveal()
	}
	return out, nil
}

func (s *Resource) retireSigningKey(ctx context.Context, in *signingKeyParam) (*struct{}, error) {
	if err := s.Auth.MayChange(ctx, "path.app", in.App); err != nil {
		return nil, err
	}
	if err := input.CheckText("path.app", in.App, timer.MaxAppLen); err != nil {
		return nil, err
	}
	id, err := timer.ParseID(in.ID)
	if err != nil {
		return nil, timer.NotFound("signing key", in.ID)
	}
	return nil, s.Store.RetireSigningKey(ctx, in.App, id)
}

func showSigningKey(k *store.SigningKey) SigningKeyBody {
	return SigningKeyBody{
		ID:        k.ID.String(),
		Kind:      k.Kind,
		Public:    k.Public,
		CreatedAt: input.Instant(k.CreatedMS),
	}
}
