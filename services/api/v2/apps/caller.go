package apps

import (
	"context"

	"github.com/carillon-timer/carillon/services/api/auth"
)

type callerInput struct {
	App string `query:"app" maxLength:"64" doc:"The app in which the scope counts."`
}

type callerOutput struct{ Body callerBody }

type callerBody struct {
	App        string `json:"app,omitempty" doc:"The app that the key is for. Absent where it is for several."`
	Deployment bool   `json:"deployment" doc:"Whether it is for every app."`
	Name       string `json:"name,omitempty" doc:"Of a person."`
	Scope      string `json:"scope,omitempty" enum:"read,operate,write,admin" doc:"Absent without a role in the app."`
}

// getCaller tells programs that act for people what to offer them.
func (*Resource) getCaller(ctx context.Context, in *callerInput) (*callerOutput, error) {
	b := callerBody{
		Deployment: auth.OfDeployment(ctx), Name: auth.NameOf(ctx),
		Scope: string(auth.ScopeIn(ctx, in.App)),
	}
	if own := auth.AppsOf(ctx); len(own) == 1 && !b.Deployment {
		b.App = own[0]
	}
	return &callerOutput{b}, nil
}
