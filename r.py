import socket
s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.bind(("10.9.0.2",7777)); s.settimeout(1.5)
got=set()
try:
    while True: got.add(int(s.recv(64)))
except TimeoutError: pass
n=max(got)+1
lost=sorted(set(range(n))-got); print("last",n,"lost",len(lost),lost[:10])
