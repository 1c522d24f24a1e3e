// Runs an OpenID provider on a free port of the loopback address until its input ends:
// node provider.mjs <redirect URL>. It prints its issuer. Anybody signs in under any name; the part
// of the name before a dash is the person's group.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';

// The modules are where oidc-oracle.sh installed them, not beside this file.
const require = createRequire(`${process.env.OIDC_ORACLE}/`);
const { Provider } = await import(require.resolve('oidc-provider'));

const server = createServer();
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const issuer = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(issuer, {
  clients: [{
    client_id: 'page', client_secret: 'the secret of the page', redirect_uris: [process.argv[2]],
  }],
  claims: { openid: ['sub'], profile: ['name'], groups: ['groups'] },
  scopes: ['openid', 'profile', 'groups'],
  pkce: { required: () => true },
  cookies: { keys: ['of a test'] },
  features: { devInteractions: { enabled: true } },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, name: `the ${id}`, groups: [id.split('-')[0]] }),
  }),
});
server.on('request', provider.callback());
console.log(issuer);
process.stdin.on('end', () => process.exit()).resume();
